"""The core of tocsin: time, schedules, the model and the store. No Celery, no HTTP server."""

__version__ = "0.1.0"
