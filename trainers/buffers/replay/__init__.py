"""The replay: the steps that off-policy trainers keep, and batches drawn from them."""
