# Karuna's mixed traffic (Chen et al., SIGCOMM 2016), type 1: flows with a deadline; its authors' CDF_dctcp_1.txt (baiwei0427/PIAS, mixedflow).
# Packets of 1460 B, interpolated, rounded up. The meaning of the types is inferred from the script next to the table.
packet_bytes 1460
6 0
6 0.152
13 0.212
19 0.303
33 0.455
53 0.515
133 0.636
667 0.91
1333 0.97
3333 0.97
6667 1
