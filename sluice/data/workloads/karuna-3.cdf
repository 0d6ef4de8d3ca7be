# Karuna's mixed traffic (Chen et al., SIGCOMM 2016), type 3: flows of unknown size; its authors' CDF_dctcp_3.txt (baiwei0427/PIAS, mixedflow).
# Packets of 1460 B, interpolated, rounded up. The meaning of the types is inferred from the script next to the table.
packet_bytes 1460
6 0
6 0.135
13 0.162
19 0.216
33 0.324
53 0.459
133 0.514
667 0.541
1333 0.649
3333 0.811
6667 0.946
20000 1
