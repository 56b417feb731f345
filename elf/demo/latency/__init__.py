"""The demo of latency: a query over the shop's clicks whose results are to be out in half a second, and where the time
goes. May import the other packages of the demo.
"""
