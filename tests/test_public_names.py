"""Each package exports exactly these names, and importing packages loads nothing heavy."""

import importlib
import subprocess
import sys

import pytest

NAMES = {
    "lanista": "TrainingResult load make_aec make_gym make_parallel make_sb3 make_vector train",
    "lanista.envs": (
        "BehaviorName Decision DemonstrationRecorder EngineConfig EngineConfigurationChannel EnvManager "
        "EnvironmentParametersChannel EnvironmentStep FloatPropertiesChannel IncomingMessage OutgoingMessage "
        "RawBytesChannel SideChannel SideChannelManager StatsAggregationMethod StatsSideChannel "
        "UnityEnvRegistry UnityEnvironment World WorldEnvironment default_registry make_source"
    ),
    "lanista.agent_processor": (
        "AgentKey AgentManager AgentManagerQueue AgentProcessor Rollout StatsSink Trajectory"
    ),
    "lanista.trainers": (
        "COMATrainer Callback CheckpointSaved DDPGTrainer DQNTrainer EngineErrorPrinted EpisodeEnd "
        "EvaluationEnd EvaluationStep MAPPOTrainer POCATrainer PPOTrainer RunOptions SACTrainer "
        "StatsPropertyType StatsReporter StatsSummary StatsWriter StepTaken SummaryDue TD3Trainer "
        "TrainerConfigError TrainerError "
        "TrainerSettings TrainingBegin TrainingEnd UpdateEnd parse_command_line run_training"
    ),
}
NEEDS_AN_EXTRA = {"make_sb3"}


@pytest.mark.parametrize("package", NAMES)
def test_a_package_exports_these_names(package):
    module = importlib.import_module(package)
    assert dir(module) == sorted(NAMES[package].split())
    for name in set(dir(module)) - NEEDS_AN_EXTRA:
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = module.nothing


def test_importing_the_packages_loads_neither_torch_nor_numpy():
    heavy = "torch numpy onnxruntime pydantic grpc google.protobuf"
    code = f"import sys, {', '.join(NAMES)}; print(*(m for m in {heavy.split()!r} if m in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split() == []
