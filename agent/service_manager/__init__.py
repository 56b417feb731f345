"""Tells the service manager how the agent is: ready, at work, reloading, leaving, and that its loop makes progress.

In: the environment that systemd gives a unit of `Type=notify`, and the driver. Out: datagrams to `NOTIFY_SOCKET`.
Imports: the driver. Outside of a service manager nothing is sent.
"""
