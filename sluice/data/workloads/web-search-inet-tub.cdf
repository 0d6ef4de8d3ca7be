# Web search in bytes with another head: websearch.csv of inet-tub/ns3-datacenter; from 10 KB on as web-search-bytes.
0 0
2000 0
2100 0.02
2500 0.05
6000 0.1
10000 0.15
20000 0.2
30000 0.3
50000 0.4
80000 0.53
200000 0.6
1000000 0.7
2000000 0.8
5000000 0.9
10000000 0.97
30000000 1
