"""Sessions of Spark, and the Java they need."""
