"""What leaves the agent: reports and notices as mails and web calls.

``content`` says what, ``mail`` and ``webhook`` carry it, ``settings`` says to whom. When and how
often is the schedule's business.
"""
