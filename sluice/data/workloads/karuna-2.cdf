# Karuna's mixed traffic (Chen et al., SIGCOMM 2016), type 2: flows of known size; its authors' CDF_dctcp_2.txt (baiwei0427/PIAS, mixedflow).
# Packets of 1460 B, interpolated, rounded up. The meaning of the types is inferred from the script next to the table.
packet_bytes 1460
6 0
6 0.167
13 0.233
19 0.4
33 0.433
53 0.633
133 0.667
667 0.667
1333 0.8
3333 0.933
6667 0.967
20000 1
