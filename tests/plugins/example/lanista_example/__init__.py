"""Extends Lanista by a stats writer and a trainer."""
