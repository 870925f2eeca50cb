"""PPO's objective, put together from its terms as in `PPO.update`, and cases of the reference data."""

import torch
from goldendata import array
from lanista.trainers.algorithms.ppo.losses import VALUE_WEIGHT, clipped_surrogate, masked_mean


def ppo_objective(log_probs, old_log_probs, advantages, entropy, values, returns, epsilon, beta, mask=None):
    """The loss to differentiate, its policy term and its value term."""
    policy = -clipped_surrogate((log_probs - old_log_probs).exp(), advantages, epsilon, mask)
    value = masked_mean((returns - values) ** 2, mask)
    return policy + VALUE_WEIGHT * value - beta * masked_mean(entropy, mask), policy, value


def tensor(value):
    return torch.from_numpy(array(value))


def components(inputs, continuous, discrete):
    """Continuous columns, then one column per branch; a part that the case lacks is empty."""
    parts = [torch.zeros(len(inputs["advantages"]), 0)] * 2
    for k, key in enumerate((continuous, discrete)):
        if inputs.get(key) is not None:
            parts[k] = tensor(inputs[key]).T if "per_branch" in key else tensor(inputs[key])
    return torch.cat(parts, 1)
