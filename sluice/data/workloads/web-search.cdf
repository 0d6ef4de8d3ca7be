# Web search (the DCTCP paper's production cluster, Alizadeh et al., SIGCOMM 2010), as the ns-2 studies use it: pFabric, and PIAS's,
# MQ-ECN's and TCN's CDF_dctcp.tcl. Packets of 1460 B, interpolated, rounded up. Interpolated mean 1140.98 packets = 1.67 MB (the scripts say 1138).
packet_bytes 1460
6 0
6 0.15
13 0.20
19 0.30
33 0.40
53 0.53
133 0.60
667 0.70
1333 0.80
3333 0.90
6667 0.97
20000 1.00
