"""What is asked of a cluster."""

import pytest
from lanista.envs.ray.spec import EngineSpec, check_seconds


@pytest.mark.parametrize("timeout", [60.0, 5000.0])
def test_a_node_that_has_yet_to_download_an_environment_has_the_time_for_that(timeout):
    there = EngineSpec("scene:ball3d", 0, timeout)
    assert there.start_seconds == timeout
    downloaded = EngineSpec("registry:Ball", 0, timeout)
    assert downloaded.start_seconds == max(timeout, check_seconds(downloaded.file_name)) > 60
