-- Rows of spans to read: decides whether all are read or one block in so many.
SELECT count()
FROM spans
WHERE start_hour >= toStartOfHour({from:DateTime('UTC')}) AND start_hour < {to:DateTime('UTC')}
