"""What was asked: pods, nodes and their owners, and the workloads they belong to.

Edges first: ``files`` reads what kubectl printed; ``gathering`` turns documents into values, the
same way for whatever source hands them over. The rest is pure: ``resources`` (GPU requests),
``holding`` (who holds a device when), ``owners`` (roll-up), ``identity`` (runs and workloads),
``classify`` (what a workload does). Names of vendors, kinds, labels and engines are data files.
"""
