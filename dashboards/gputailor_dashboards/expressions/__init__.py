"""PromQL by dialect: one module per exporter, so that every panel and rule exists once.

``base`` says what a dialect must be able to answer, ``native`` answers from GPU Tailor's exporter,
``dcgm`` from a stock dcgm-exporter.
"""
