-- The series that the run's rules read, what they are figures of, and which of them are the same figure.
-- Only the platform's metrics count: a tenant cannot say what machines did.
INSERT INTO work_series
WITH
    (told, keys) -> arrayFirst(v -> v != '', arrayMap(k -> told[k], keys)) AS first_of,
    (
        SELECT groupArray((match, replica, from_ns, to_ns))
        FROM inventory
        WHERE config_hash = {config_hash:String} AND from_ns < {to_ns:Int64} AND to_ns > {from_ns:Int64}
    ) AS listed,
    arrayDistinct(arrayFlatten(arrayMap(row -> mapKeys(row.1), listed))) AS asked,
    rules AS (SELECT * FROM metric_rules WHERE config_hash = {config_hash:String}),
    seen AS (
        SELECT
            metric,
            series_id,
            CAST(any(resource), 'Map(String, String)') AS resource,
            CAST(any(attributes), 'Map(String, String)') AS labels
        FROM samples
        WHERE metric IN (SELECT metric FROM rules)
            AND at >= fromUnixTimestamp64Nano({read_from_ns:Int64}, 'UTC') AND at < fromUnixTimestamp64Nano({read_to_ns:Int64}, 'UTC')
            AND principal = 'platform'
        GROUP BY metric, series_id
    ),
    read AS (
        SELECT
            s.metric AS metric, s.series_id AS series_id, r.rank AS rank, r.quantity AS quantity, r.kind AS kind, r.unit AS unit,
            r.combine AS combine, r.reads AS reads, r.micro_per_unit AS micro_per_unit,
            r.of AS of, r.once_roles AS once_roles, r.once_labels AS once_labels,
            mapUpdate(s.resource, s.labels) AS everything,
            first_of(everything, r.device_keys) AS device,
            replaceRegexpOne(first_of(everything, r.host_keys), ':[0-9]+$', '') AS host,
            first_of(everything, r.model_keys) AS model,
            mapUpdate(map('k8s.pod.name', s.labels['pod'], 'k8s.namespace.name', s.labels['namespace'], 'host.name', host), everything) AS named,
            first_of(named, arrayConcat(r.replica_keys, ['tokenpath.replica.id', 'k8s.pod.name', 'service.instance.id', 'service.name'])) AS own_name,
            arrayMap(k -> (k, named[k]), asked) AS answers,
            if(r.of = 'service', s.resource['service.name'], '') AS service,
            sipHash64(arraySort(arrayZip(mapKeys(s.resource), mapValues(s.resource)))) AS resource_key,
            arraySort(arrayFilter(pair -> NOT has(r.repeated_by, pair.1), arrayZip(mapKeys(s.labels), mapValues(s.labels)))) AS rest,
            arrayMap(k -> s.labels[k], r.once_labels) AS once_more
        FROM seen AS s
        INNER JOIN rules AS r ON r.metric = s.metric
        WHERE arrayAll((k, v) -> s.labels[k] = v, mapKeys(r.labels), mapValues(r.labels))
            AND (r.of != 'device' OR device != '') AND (r.of != 'host' OR host != '')
    ),
    placed AS (
        -- Series with the same answers have the same replica, so that the inventory is searched once for all of them.
        SELECT
            arraySort(arrayMap(
                row -> (-toInt64(length(row.1)), row.2, row.3, row.4),
                arrayFilter(
                    row -> row.2 = own_name OR (notEmpty(row.1) AND arrayAll((k, v) -> has(answers, (k, v)), mapKeys(row.1), mapValues(row.1))),
                    listed
                )
            )) AS fits,
            own_name,
            arrayJoin(groupArray((
                metric, series_id, rank, quantity, kind, unit, combine, reads, micro_per_unit, of, once_roles, once_labels, device, host, model,
                resource_key, rest, once_more, service
            ))) AS one
        FROM read
        GROUP BY answers, own_name
    )
SELECT
    one.1 AS metric, one.2 AS series_id, one.3 AS rank, one.4 AS quantity, one.5 AS kind, one.6 AS unit, one.7 AS combine, one.8 AS reads,
    one.9 AS micro_per_unit,
    if(each_series, sipHash64(rank, metric, series_id), sipHash64(rank, one.16, once_values, one.18)) AS stream,
    if(each_series, sipHash64(quantity, one.16, one.17), sipHash64(quantity, once_values, one.18)) AS thing,
    if(empty(once_values), sipHash64(quantity, one.16), sipHash64(quantity, once_values)) AS place,
    one.19 AS service, one.14 AS host, one.13 AS device, one.15 AS model, if(one.10 = 'replica', own_name, '') AS own_name, fits
FROM (
    SELECT
        *,
        empty(one.11) AND empty(one.12) AS each_series,
        arrayMap(
            role -> multiIf(role = 'device', one.13, role = 'host', one.14, role = 'model', one.15, notEmpty(fits), fits[1].2, own_name),
            one.11
        ) AS once_values
    FROM placed
)
