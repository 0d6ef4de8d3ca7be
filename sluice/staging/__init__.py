# SPDX-License-Identifier: Apache-2.0
"""Jobs on nodes that share no folder with the machine that submits them.

Slurm carries everything. `sluice.staging.submit` starts a job with srun and writes its points to the standard input.
`sluice.staging.node` runs them there, and writes their states and their bundles to the standard output. Each job has
such a pair of processes, so these modules import only what is small.
"""
