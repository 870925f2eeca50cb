"""PPO's objective, put together from its terms as in `PPO.update`."""

from lanista.trainers.algorithms.ppo.losses import VALUE_WEIGHT, clipped_surrogate, masked_mean


def ppo_objective(log_probs, old_log_probs, advantages, entropy, values, returns, epsilon, beta, mask=None):
    """The loss to differentiate, its policy term and its value term."""
    policy = -clipped_surrogate((log_probs - old_log_probs).exp(), advantages, epsilon, mask)
    value = masked_mean((returns - values) ** 2, mask)
    return policy + VALUE_WEIGHT * value - beta * masked_mean(entropy, mask), policy, value
