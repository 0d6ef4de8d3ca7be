# Data mining (the VL2 paper's cluster, Greenberg et al., SIGCOMM 2009), as the ns-2 studies use it: pFabric, and PIAS's CDF_vl2.tcl.
# Packets of 1460 B, interpolated, rounded up. Interpolated mean 5116.6 packets = 7.47 MB. The table in bytes has 12.66 MB: 0.98 instead of 0.99 at 100 MB.
packet_bytes 1460
1 0
1 0.50
2 0.60
3 0.70
7 0.80
267 0.90
2107 0.95
66667 0.99
666667 1.00
