"""The demo of online parameter optimization: web servers whose offers are as prominent as a job says, visitors who like
one prominence best, and the job that finds it. May import the other packages of the demo.
"""
