# Alibaba's storage traffic of 2019, in bytes and percent, as HPCC's AliStorage2019 has it.
0 0
4000 22.93
8000 69.21
16000 80.61
32000 90.47
64000 93.53
128000 96.77
256000 97.53
2000000 100
