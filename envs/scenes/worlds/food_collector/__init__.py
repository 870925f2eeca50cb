"""Unity's FoodCollector."""
