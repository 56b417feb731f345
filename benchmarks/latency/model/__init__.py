"""The model of latency beside what is measured (Li et al., section 5.1, Figure 6, Table 4): its errors at settings that
it has not seen, and the settings that are chosen by it beside all others.
"""
