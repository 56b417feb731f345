"""The demo of the job `lending`: a day of applications for loans on real web servers, an agent beside each, and windows
of up to 24 hours, held against the logs. May import the other packages of the demo.
"""
