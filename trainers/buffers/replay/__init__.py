"""The replay of off-policy trainers: stores steps, and samples batches of them."""
