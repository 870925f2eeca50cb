"""Tests of the policies that a run trains, in an environment of their own."""
