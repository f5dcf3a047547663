"""The one mutable state of the dashboard and everything between the session and the views."""
