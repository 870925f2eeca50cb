"""`lanista report`: runs beside each other on one page."""
