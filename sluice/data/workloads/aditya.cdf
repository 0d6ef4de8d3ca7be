# Short flows of the simulator YAPS (NetSys/simulator, the table "aditya"). Packets of 1460 B, interpolated, rounded up.
packet_bytes 1460
1 0
1 0.5
2 0.6
3 0.7
5 0.75
7 0.8
40 0.8125
72 0.825
137 0.85
267 0.9
1187 0.95
2107 1
