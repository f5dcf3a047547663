"""Panels, views and dialogs: one a file. Each reads the store and pushes commands."""
