from __future__ import annotations

import re

from experiment.data import DataPlan
from hypothesis import given
from hypothesis import strategies as st

plans = st.builds(
    DataPlan,
    images=st.integers(1, 5000),
    shards=st.integers(1, 100),
    validation_images=st.integers(1, 500),
    validation_shards=st.integers(1, 8),
)


@given(plans)
def test_every_image_is_in_one_file(plan: DataPlan) -> None:
    numbers = [number for _, those in plan.files() for number in those]
    assert numbers == list(range(plan.images + plan.validation_images))


@given(plans)
def test_files_are_called_and_split_as_those_of_imagenet(plan: DataPlan) -> None:
    files = dict(plan.files())
    assert len(files) == plan.shards + plan.validation_shards
    training = [those for name, those in files.items() if re.fullmatch(r"train-\d{5}-of-\d{5}", name)]
    assert len(training) == plan.shards
    assert max(map(len, training)) - min(map(len, training)) <= 1


def test_data_of_another_plan_lies_elsewhere() -> None:
    names = {
        DataPlan(100, 4).folder_name(),
        DataPlan(100, 5).folder_name(),
        DataPlan(100, 4, seed=2).folder_name(),
    }
    assert len(names) == 3
    assert DataPlan(100, 4).folder_name() in names
