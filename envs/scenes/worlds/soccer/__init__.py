"""Unity's SoccerTwos."""
