-- Stores a question. KEYS: entries, order, expiry, sequence, vectors. ARGV: key, value, expires (ms), most,
-- vector (float32, empty where the server has no vector sets). Returns the keys that had to go for it.
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[2], redis.call('INCR', KEYS[4]), ARGV[1])
redis.call('ZADD', KEYS[3], ARGV[3], ARGV[1])
if ARGV[5] ~= '' then
  redis.call('VADD', KEYS[5], 'FP32', ARGV[5], ARGV[1], 'SETATTR', '{"until":' .. ARGV[3] .. '}')
end
local over = redis.call('ZCARD', KEYS[2]) - tonumber(ARGV[4])
if over <= 0 then return {} end
return redis.call('ZRANGE', KEYS[2], 0, math.min(over, 100) - 1)
