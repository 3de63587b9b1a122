"""Who waits for whose answer, and who may end whose call."""

from services.proxy.answers.flights import Flights
from tests.proxy.answers.conftest import make_answer


async def test_who_shares_has_the_answer_before_it_is_stored():
    """It is still about to land for those who only wait until they can look."""
    flights = Flights()
    flight = flights.begin("k")
    flights.tell(flight, make_answer())
    assert (await flight.answered).pieces == [b"Paris."]
    assert not flight.landed.done()
    assert flights.under_way("k", landing=False) is flight
    flights.land(flight)
    assert flight.landed.done()
    assert flights.under_way("k", landing=False) is None


async def test_a_call_that_failed_is_nobodys_answer():
    """Whoever waits for it goes on without."""
    flights = Flights()
    one, other = flights.begin("k"), flights.begin("k")
    flights.land(one)
    flights.land(one)
    assert await one.answered is None
    assert flights.under_way("k", landing=False) is other
    flights.land(other)


async def test_the_last_passenger_ends_the_call_of_a_client_that_left_but_not_one_that_is_over():
    """What has answered is not to be ended any more."""
    flights, ended = Flights(), []
    for told in (False, True):
        flight = flights.begin("k")
        flight.passengers, flight.deserted = 2, True
        flight.end = lambda: ended.append("ended")
        flight.leave()
        assert ended == ([] if not told else ["ended"])
        if told:
            flights.tell(flight, make_answer())
        flight.leave()
        assert ended == ["ended"]
        flights.land(flight)
