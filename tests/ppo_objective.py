"""PPO's objective, put together from its terms as in `PPO.update`, and cases of the reference data."""

import torch
from goldendata import array
from lanista.trainers.algorithms.ppo.losses import clipped_surrogate, masked_mean
from lanista.trainers.settings.models.algorithms import PPOSettings, ProbabilityRatio

VALUE_WEIGHT = 0.5
"""ML-Agents' weight of the value loss."""
DEFAULT = PPOSettings()


def ppo_objective(
    log_probs, old_log_probs, advantages, entropy, values, returns, epsilon, beta, mask=None, hyper=DEFAULT
):
    """The loss to differentiate, its policy term and its value term."""
    log_ratio = log_probs - old_log_probs
    if hyper.ratio is ProbabilityRatio.JOINT:
        log_ratio = log_ratio.sum(1, keepdim=True)
    policy = -clipped_surrogate(log_ratio.exp(), advantages, epsilon, mask)
    value = masked_mean((returns - values) ** 2, mask)
    return policy + hyper.value_coefficient * value - beta * masked_mean(entropy, mask), policy, value


def tensor(value):
    return torch.from_numpy(array(value))


def components(inputs, continuous, discrete):
    """Continuous columns, then one column per branch; a part that the case lacks is empty."""
    parts = [torch.zeros(len(inputs["advantages"]), 0)] * 2
    for k, key in enumerate((continuous, discrete)):
        if inputs.get(key) is not None:
            parts[k] = tensor(inputs[key]).T if "per_branch" in key else tensor(inputs[key])
    return torch.cat(parts, 1)
