"""The embedded engine: small worlds that run as processes of their own and speak Unity's protocol."""
