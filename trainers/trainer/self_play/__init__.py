"""Self-play: agents that learn against older selves."""
