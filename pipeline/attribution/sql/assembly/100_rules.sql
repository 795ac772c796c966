-- Which rule reads which spans, worked out once per distinct (scope name, span name) instead of once per span.
-- A name whose rules ask for m conditions gets 2^m rows, one per set of conditions that may hold.
INSERT INTO work_rules (scope_name, name, relevant, holding, rank)
WITH
    names AS (
        SELECT DISTINCT scope_name, name
        FROM spans
        WHERE start_hour >= toStartOfHour(fromUnixTimestamp64Nano({read_from_ns:Int64}, 'UTC'))
            AND start_hour < fromUnixTimestamp64Nano({read_to_ns:Int64}, 'UTC')
    ),
    ordered AS (
        SELECT
            n.scope_name AS scope_name,
            n.name AS name,
            arraySort(groupArray((r.rank, transform(r.rank, {ranks:Array(UInt32)}, {needed:Array(UInt32)}, toUInt32(0))))) AS by_rank,
            -- Nothing after the first rule without conditions can win.
            arraySlice(by_rank, 1, if(has(by_rank.2, 0), indexOf(by_rank.2, 0), length(by_rank))) AS able
        FROM names AS n
        CROSS JOIN (SELECT scope_names, name, name_is_prefix, rank FROM profile_rules WHERE config_hash = {config_hash:String}) AS r
        WHERE (empty(r.scope_names) OR has(r.scope_names, n.scope_name))
            AND (n.name = r.name OR (r.name_is_prefix = 1 AND startsWith(n.name, r.name)))
        GROUP BY scope_name, name
    ),
    asked AS (SELECT scope_name, name, able, toUInt32(arrayReduce('groupBitOr', able.2)) AS relevant, bitPositionsToArray(relevant) AS bits FROM ordered)
SELECT scope_name, name, relevant, holding, able[first].1
FROM (
    SELECT
        scope_name,
        name,
        able,
        relevant,
        toUInt32(arraySum(arrayMap((bit, n) -> if(bitTest(subset, n), bitShiftLeft(toUInt64(1), bit), 0), bits, range(length(bits))))) AS holding,
        arrayFirstIndex(x -> bitAnd(x.2, holding) = x.2, able) AS first
    FROM asked
    ARRAY JOIN range(bitShiftLeft(toUInt32(1), length(bits))) AS subset
)
WHERE first > 0
