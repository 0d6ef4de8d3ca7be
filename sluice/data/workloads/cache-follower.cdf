# Cache followers (Facebook, Roy et al., SIGCOMM 2015), as MQ-ECN's ns-2 scripts have it (CDF_cache.tcl).
# Packets of 1460 B, interpolated, rounded up. Interpolated mean 624 packets.
packet_bytes 1460
1 0
1 0.35
2 0.4
7 0.46
13 0.5
67 0.6
133 0.7
667 0.78
1333 0.8
2000 0.9
2667 0.99
33333 1
