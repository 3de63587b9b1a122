"""The settings of sampling and its alarm."""

import pytest

from services.settings import SettingsError, load


def test_sampling_is_on_and_the_alarm_is_off():
    """Out of the box."""
    settings = load({})
    assert (settings.sample_interval_s, settings.alarm_hit_rate) == (60.0, None)


@pytest.mark.parametrize("value", ["-1", "nan", "often"])
def test_an_interval_is_a_number_from_0_on(value: str):
    """0 is off."""
    with pytest.raises(SettingsError, match="METALANCHOR_SAMPLE_INTERVAL_S"):
        load({"METALANCHOR_SAMPLE_INTERVAL_S": value})
    assert load({"METALANCHOR_SAMPLE_INTERVAL_S": "0"}).sample_interval_s == 0


@pytest.mark.parametrize("value", ["1.5", "-0.1", "60", "nan"])
def test_an_alarm_is_a_share(value: str):
    """60 is no 60 %."""
    with pytest.raises(SettingsError, match="METALANCHOR_ALARM_HIT_RATE"):
        load({"METALANCHOR_ALARM_HIT_RATE": value})
    assert load({"METALANCHOR_ALARM_HIT_RATE": ""}).alarm_hit_rate is None
