"""The sections of the page: each builds its part in the toolkit and is shown what is new."""
