"""The backend as a whole: started, locked, guarded, started again after a kill, taken down.

Must not know the server or what is being reconciled: it acts when no supervisor can.
"""
