SELECT shelf, SUM(packets) FROM packets GROUP BY shelf;
