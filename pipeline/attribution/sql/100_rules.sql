-- Which rule reads which spans, worked out once per distinct (scope name, span name) instead of once per span.
-- A name whose rules ask for m conditions gets 2^m rows, one per set of conditions that may hold.
INSERT INTO work_rules (scope_name, name, relevant, holding, rank)
WITH
    -- What rules ask of a span besides its names, one bit each; sorted, so that equal configurations give equal bits.
    conditions AS (
        SELECT attribute, resource, row_number() OVER (ORDER BY attribute, toString(resource)) - 1 AS bit
        FROM (
            SELECT DISTINCT attribute, resource
            FROM profile_rules
            WHERE config_hash = {config_hash:String} AND (attribute != '' OR notEmpty(resource))
        )
    ),
    names AS (
        SELECT DISTINCT scope_name, name
        FROM spans
        WHERE start_hour >= toStartOfHour(fromUnixTimestamp64Nano({read_from_ns:Int64}, 'UTC'))
            AND start_hour < fromUnixTimestamp64Nano({read_to_ns:Int64}, 'UTC')
    ),
    candidates AS (
        SELECT
            n.scope_name AS scope_name,
            n.name AS name,
            r.rank AS rank,
            if(r.attribute = '' AND empty(r.resource), 0, toUInt32(bitShiftLeft(toUInt64(1), c.bit))) AS needed
        FROM names AS n
        CROSS JOIN (SELECT * FROM profile_rules WHERE config_hash = {config_hash:String}) AS r
        LEFT JOIN conditions AS c ON c.attribute = r.attribute AND toString(c.resource) = toString(r.resource)
        WHERE (empty(r.scope_names) OR has(r.scope_names, n.scope_name))
            AND (n.name = r.name OR (r.name_is_prefix = 1 AND startsWith(n.name, r.name)))
    ),
    ordered AS (
        SELECT
            scope_name,
            name,
            arraySort(groupArray((rank, needed))) AS by_rank,
            -- Nothing after the first rule without conditions can win.
            arraySlice(by_rank, 1, if(has(by_rank.2, 0), indexOf(by_rank.2, 0), length(by_rank))) AS able,
            toUInt32(arrayReduce('groupBitOr', able.2)) AS relevant,
            throwIf((SELECT count() FROM conditions) > 32, 'profiles ask for more than 32 different conditions (attribute, resource)') AS checked
        FROM candidates
        GROUP BY scope_name, name
    )
SELECT scope_name, name, relevant, holding, able[first].1
FROM (
    SELECT
        scope_name,
        name,
        able,
        relevant,
        bitPositionsToArray(relevant) AS bits,
        toUInt32(arraySum(arrayMap((bit, n) -> if(bitTest(subset, n), bitShiftLeft(toUInt64(1), bit), 0), bits, range(length(bits))))) AS holding,
        arrayFirstIndex(x -> bitAnd(x.2, holding) = x.2, able) AS first
    FROM ordered
    ARRAY JOIN range(bitShiftLeft(toUInt32(1), length(bitPositionsToArray(relevant)))) AS subset
)
WHERE first > 0
