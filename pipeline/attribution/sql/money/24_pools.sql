-- What each replica cost per window and price, and how its time divides. Time on a replica that the inventory does not list has no price.
-- Computed from segments and busy slots, not from the shares: the conservation check compares two ways of counting.
INSERT INTO work_pools
WITH busy AS (
    SELECT window_from, replica, segment_from, any(listed) AS listed, sum(busy_ns) AS busy_ns, sum(busy_atoms) AS busy_atoms
    FROM work_slots
    GROUP BY window_from, replica, segment_from
),
held AS (
    SELECT
        replica,
        segment_from,
        currency,
        price_id,
        priced,
        toDateTime(intDiv(window_ns, 1000000000), 'UTC') AS window_from,
        greatest(segment_from, window_ns) AS held_from,
        least(segment_to, window_ns + {window_ns:Int64}) AS held_to,
        toUInt64(held_to - held_from) AS capacity_ns,
        intDiv(atoms_per_hour * (held_to - segment_from), 3600000000000)
        - intDiv(atoms_per_hour * (held_from - segment_from), 3600000000000) AS atoms
    FROM work_segments
    ARRAY JOIN range({from_ns:Int64}, {to_ns:Int64}, {window_ns:Int64}) AS window_ns
    WHERE segment_from < window_ns + {window_ns:Int64} AND segment_to > window_ns
),
parts AS (
    SELECT h.window_from AS window_from, h.replica AS replica, h.currency AS currency, h.price_id AS price_id, h.priced AS priced,
           h.capacity_ns AS capacity_ns, h.atoms AS atoms, b.busy_ns AS busy_ns, b.busy_atoms AS busy_atoms
    FROM held AS h
    LEFT JOIN busy AS b ON h.window_from = b.window_from AND h.replica = b.replica AND h.segment_from = b.segment_from
    UNION ALL
    SELECT window_from, replica, '', '', 0, busy_ns, toInt128(0), busy_ns, toInt128(0)
    FROM busy
    WHERE listed = 0
)
SELECT
    p.window_from AS window_from,
    {run_id:UInt64} AS run_id,
    'gpu' AS pool,
    p.replica AS resource,
    p.currency AS currency,
    p.price_id AS price_id,
    p.priced AS priced,
    sum(p.capacity_ns) AS capacity_ns,
    sum(p.busy_ns) AS busy_ns,
    0 AS platform_ns,
    capacity_ns - busy_ns AS idle_ns,
    sum(p.atoms) AS atoms,
    sum(p.busy_atoms) AS busy_atoms,
    toInt128(0) AS platform_atoms,
    atoms - busy_atoms AS idle_atoms
FROM parts AS p
GROUP BY p.window_from, p.replica, p.currency, p.price_id, p.priced
