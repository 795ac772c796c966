-- Which replica each resource of an engine is: the inventory row whose `match` fits (the one that asks for most, then by name),
-- else what the resource calls itself.
INSERT INTO work_replicas (resource_key, epoch, until_ns, replica, listed)
WITH
    resources AS (SELECT resource_key, any(resource) AS resource FROM work_spans WHERE resource_key != 0 AND cityHash64(trace_id) % {chunks:UInt32} = {chunk:UInt32} GROUP BY resource_key),
    rows AS (SELECT * FROM inventory WHERE config_hash = {config_hash:String} AND from_ns < {read_to_ns:Int64} AND to_ns > {read_from_ns:Int64}),
    (
        SELECT arraySort(arrayDistinct(arrayConcat(
            [{read_from_ns:Int64}],
            arrayFilter(t -> t > {read_from_ns:Int64} AND t < {read_to_ns:Int64}, arrayConcat(groupArray(from_ns), groupArray(to_ns)))
        )))
        FROM rows
    ) AS borders,
    named AS (
        SELECT
            resource_key,
            resource,
            arrayFirst(v -> v != '', [
                resource['tokenpath.replica.id'], resource['k8s.pod.name'], resource['service.instance.id'], resource['service.name']
            ]) AS own_name
        FROM resources
    ),
    fitting AS (
        SELECT
            n.resource_key AS resource_key,
            groupArray((-toInt64(length(i.match)), i.replica, i.from_ns, i.to_ns)) AS fits
        FROM named AS n
        CROSS JOIN rows AS i
        WHERE (notEmpty(i.match) AND arrayAll((k, v) -> n.resource[k] = v, mapKeys(i.match), mapValues(i.match))) OR i.replica = n.own_name
        GROUP BY n.resource_key
    )
SELECT
    n.resource_key,
    epoch - 1,
    if(epoch < length(borders), borders[epoch + 1], {read_to_ns:Int64}),
    if(notEmpty(valid), valid[1].2, n.own_name),
    notEmpty(valid)
FROM (
    SELECT
        n.resource_key AS resource_key,
        n.own_name AS own_name,
        epoch,
        arraySort(arrayFilter(x -> x.3 <= borders[epoch] AND x.4 > borders[epoch], f.fits)) AS valid
    FROM named AS n
    LEFT JOIN fitting AS f ON f.resource_key = n.resource_key
    ARRAY JOIN arrayEnumerate(borders) AS epoch
) AS n
