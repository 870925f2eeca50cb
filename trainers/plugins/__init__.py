"""Parts of a run that other installed packages bring, found by their entry points."""
