"""The labelled set holds the figures that are claimed for it."""

from tests.labelled.conversations import all_cases
from tests.labelled.run import CLEAN, run_all, scores


async def test_the_first_cause_is_right_in_97_of_100_and_clean_appends_are_never_blamed() -> None:
    outcomes = await run_all()
    total = scores(outcomes)["all"]
    wrong = [outcome for outcome in outcomes if outcome.found != outcome.label]
    assert len(outcomes) >= 300
    assert total.precision >= 0.97, wrong
    assert total.recall >= 0.97, wrong
    assert not [outcome for outcome in wrong if outcome.label == CLEAN]


def test_every_case_has_a_name_of_its_own() -> None:
    names = [case.name for case in all_cases()]
    assert len(set(names)) == len(names)


def test_every_api_and_both_languages_are_in_the_set() -> None:
    cases = all_cases()
    assert {case.dialect for case in cases} == {"chat", "responses", "anthropic", "ollama"}
    assert any("-zh" in case.name for case in cases)
    assert any("-en" in case.name for case in cases)
