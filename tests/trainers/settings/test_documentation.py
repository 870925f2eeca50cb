"""What a key means is read from its source: the docstring below it, or the description of its field."""

from lanista.trainers.settings.base import Integer, Settings
from lanista.trainers.settings.models.algorithms import PPOSettings
from lanista.trainers.settings.models.rewards import RewardSignalSettings
from lanista.trainers.settings.schema import key_description
from pydantic import Field, create_model


class Base(Settings):
    """Some keys."""

    first: Integer = 1
    """The first,
    on two lines."""
    second: Integer = 2
    third: Integer = Field(default=3, description="The third.")


class Derived(Base):
    """More keys."""

    first: Integer = 4
    second: Integer = 5
    """The second."""


def test_a_key_means_what_stands_below_it_or_below_the_one_it_overrides():
    assert key_description(Base, "first") == key_description(Derived, "first") == "The first, on two lines."
    assert (key_description(Base, "second"), key_description(Derived, "second")) == ("", "The second.")
    assert key_description(Derived, "third") == "The third."


def test_a_model_within_a_function_and_one_without_a_source():
    class Inner(Settings):
        """Keys of a plug-in, perhaps."""

        key: Integer = 1
        """Its key."""

    assert key_description(Inner, "key") == "Its key."
    made = create_model("Made", __base__=Settings, key=(Integer, 1))
    assert key_description(made, "key") == ""


def test_inherited_keys_of_the_product_have_a_meaning():
    assert all(
        key_description(model, key)
        for model in (PPOSettings, RewardSignalSettings)
        for key in model.written()
    )
