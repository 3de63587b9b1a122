-- Looks up and registers one request, in one step. The store's whole layout is in this file; all keys carry one
-- hash tag, so that a cluster keeps them together. Nothing but hashes, sizes, names and counts is kept.
--
--   n:<id>        hash: n node, k its index keys, l lineage, s settled, m marks, b backend, o model
--   i:<digest>    list of ids, newest first: by recency, session, first message or tools
--   l:<lineage>   list of ids, newest first         lineages   zset of lineages by last request
--   p:<digest>    hash of a shared part             parts      zset of part keys by last request
--   x             zset of request chains            lru, sz    zset of ids by arrival, hash of their bytes
--   v:<backend>   list of timeline events, newest first; vs:<backend> their number so far. An event is one letter,
--                 four bytes for the process it comes from, and its payload: c call, l id and lineage, s settled.
--                 Readers say which number they have seen, and are told what came from other processes.
--   bytes         estimated bytes of all nodes      swept      when old entries were last looked for
--
-- KEYS[1] is the common prefix; ARGV[1] names the operation; the rest is read below.

local base, op = KEYS[1], ARGV[1]
local call = redis.call

local function forget(id)
  local key = base .. 'n:' .. id
  local held = call('HMGET', key, 'k', 'l')
  if held[1] then
    for index in string.gmatch(held[1], '..........') do call('LREM', base .. 'i:' .. index, 0, id) end
  end
  if held[2] then
    call('LREM', base .. 'l:' .. held[2], 0, id)
    if call('EXISTS', base .. 'l:' .. held[2]) == 0 then call('ZREM', base .. 'lineages', held[2]) end
  end
  call('DEL', key)
  call('ZREM', base .. 'lru', id)
  local size = tonumber(call('HGET', base .. 'sz', id) or '0')
  call('HDEL', base .. 'sz', id)
  call('INCRBY', base .. 'bytes', -size)
end

local function weigh(id, change)
  if change ~= 0 then
    call('HINCRBY', base .. 'sz', id, change)
    call('INCRBY', base .. 'bytes', change)
  end
end

local function shrink(cap)
  for _ = 1, 64 do
    if tonumber(call('GET', base .. 'bytes') or '0') <= cap then return end
    local oldest = call('ZRANGE', base .. 'lru', 0, 0)[1]
    if not oldest then call('DEL', base .. 'bytes'); return end
    forget(oldest)
  end
end

local function sweep(now, ttl)
  if now - tonumber(call('GET', base .. 'swept') or '0') < 1000 then return end
  call('SET', base .. 'swept', now, 'PX', ttl)
  for _, id in ipairs(call('ZRANGEBYSCORE', base .. 'lru', '-inf', now - ttl, 'LIMIT', 0, 256)) do forget(id) end
  call('ZREMRANGEBYSCORE', base .. 'x', '-inf', now - ttl)
  call('ZREMRANGEBYSCORE', base .. 'parts', '-inf', now - ttl)
  for _, name in ipairs({'lru', 'sz', 'bytes', 'x', 'parts', 'lineages'}) do call('PEXPIRE', base .. name, 2 * ttl) end
end

local function see(part, now, ttl, cap, agent, meta)
  local key = base .. 'p:' .. part
  local count = call('HINCRBY', key, 'count', 1)
  if count == 1 then call('HSET', key, 'meta', meta, 'first', now) end
  call('HSET', key, 'last', now)
  -- 36: `limits.AGENTS` names beside count, meta, first and last
  if call('HINCRBY', key, 'a:' .. agent, 1) == 1 and call('HLEN', key) > 36 then
    call('HDEL', key, 'a:' .. agent)
    call('HINCRBY', key, 'a:other', 1)
  end
  call('PEXPIRE', key, ttl)
  if call('ZADD', base .. 'parts', now, part) == 1 then
    while call('ZCARD', base .. 'parts') > cap do
      call('DEL', base .. 'p:' .. call('ZPOPMIN', base .. 'parts')[1])
    end
  end
  return count > 1 and 1 or 0
end

local function log(backend, event, keep, ttl)
  local list, number = base .. 'v:' .. backend, base .. 'vs:' .. backend
  call('LPUSH', list, event)
  call('LTRIM', list, 0, keep - 1)
  call('PEXPIRE', list, ttl)
  local at = call('INCR', number)
  call('PEXPIRE', number, ttl)
  return at
end

if op == 'place' then
  local now, ttl, id, backend, packed, keep = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7])
  local me = ARGV[9]
  local at, key = log(backend, 'c' .. me .. packed, keep, ttl), base .. 'n:' .. id
  local missed, events = at - tonumber(ARGV[8]), {}
  if missed > 1 or missed < 1 then
    if missed < 1 or missed > keep then missed = keep end
    for _, event in ipairs(call('LRANGE', base .. 'v:' .. backend, 1, missed - 1)) do
      if string.sub(event, 2, 5) ~= me then events[#events + 1] = event end
    end
  end
  local node = ARGV[10]
  if node == '' then return {0, 0, 0, {}, at, events} end
  local chain, agent, part_cap, chain_cap, node_cap = ARGV[11], ARGV[12], tonumber(ARGV[13]), tonumber(ARGV[14]), tonumber(ARGV[15])
  local cost, name, model, theirs = tonumber(ARGV[16]), ARGV[17], ARGV[18], ARGV[19]
  local parts, indices = tonumber(ARGV[20]), tonumber(ARGV[21])
  sweep(now, ttl)
  local arg, seen = 22, {}
  for _ = 1, parts do
    seen[ARGV[arg]] = see(ARGV[arg + 1], now, ttl, part_cap, agent, ARGV[arg + 2])
    arg = arg + 3
  end
  local exact = 0
  if call('ZADD', base .. 'x', now, chain) == 0 then
    exact = 1
  elseif call('ZCARD', base .. 'x') > chain_cap then
    call('ZPOPMIN', base .. 'x')
  end
  local found, known, keys = {}, {[id] = true}, {}
  local again = call('EXISTS', key) == 1
  for _ = 1, indices do
    local list, limit = base .. 'i:' .. ARGV[arg], tonumber(ARGV[arg + 1])
    for _, other in ipairs(call('LRANGE', list, 0, limit - 1)) do
      if not known[other] then
        known[other] = true
        if not string.find(theirs, other, 1, true) then
          local held = call('HMGET', base .. 'n:' .. other, 'n', 's')
          if held[1] then
            found[#found + 1] = held[1]
            found[#found + 1] = held[2]
          end
        end
      end
    end
    keys[#keys + 1] = ARGV[arg]
    if again then call('LREM', list, 0, id) end
    call('LPUSH', list, id)
    call('LTRIM', list, 0, limit - 1)
    call('PEXPIRE', list, ttl)
    arg = arg + 2
  end
  call('HSET', key, 'n', node, 'k', table.concat(keys), 'b', name, 'o', model)
  call('PEXPIRE', key, ttl)
  call('ZADD', base .. 'lru', now, id)
  weigh(id, cost + #node - tonumber(call('HGET', base .. 'sz', id) or '0'))
  shrink(node_cap)
  return {seen.system or 0, seen.tools or seen.bare or 0, exact, found, at, events}
end

if op == 'adopt' then
  local id, node, lineage, backend, at, keep, ttl = ARGV[2], ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
  log(backend, 'l' .. ARGV[10] .. id .. lineage, tonumber(ARGV[9]), ttl)
  local key, list = base .. 'n:' .. id, base .. 'l:' .. lineage
  if call('EXISTS', key) == 0 then return 0 end
  local before = call('HGET', key, 'l')
  if before then call('LREM', base .. 'l:' .. before, 0, id) end
  call('HSET', key, 'n', node, 'l', lineage)
  call('LPUSH', list, id)
  call('PEXPIRE', list, ttl)
  call('ZADD', base .. 'lineages', at, lineage)
  while call('LLEN', list) > keep do forget(call('LINDEX', list, -1)) end
  return 1
end

if op == 'settle' then
  local id, backend, settled, marks, marked, cap = ARGV[2], ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7])
  local key = base .. 'n:' .. id
  log(backend, 's' .. ARGV[10] .. settled, tonumber(ARGV[8]), tonumber(ARGV[9]))
  if call('EXISTS', key) == 0 then return 0 end
  weigh(id, #settled - call('HSTRLEN', key, 's'))
  call('HSET', key, 's', settled)
  if marks ~= '' then
    weigh(id, #marks - call('HSTRLEN', key, 'm'))
    call('HSET', key, 'm', marks)
    local lineage = call('HGET', key, 'l')
    if lineage then
      for _, old in ipairs(call('LRANGE', base .. 'l:' .. lineage, marked, -1)) do
        weigh(old, -call('HSTRLEN', base .. 'n:' .. old, 'm'))
        call('HDEL', base .. 'n:' .. old, 'm')
      end
    end
  end
  shrink(cap)
  return 1
end

if op == 'overview' then
  local limit, lineages, parts = tonumber(ARGV[2]), {}, {}
  for _, lineage in ipairs(call('ZREVRANGE', base .. 'lineages', 0, limit - 1)) do
    local list = base .. 'l:' .. lineage
    local id = call('LINDEX', list, 0)
    if id then
      local held = call('HMGET', base .. 'n:' .. id, 'n', 's', 'b', 'o')
      if held[1] then lineages[#lineages + 1] = {held[1], held[2], held[3], held[4], call('LLEN', list)} end
    end
  end
  for _, part in ipairs(call('ZREVRANGE', base .. 'parts', 0, limit - 1)) do
    parts[#parts + 1] = call('HGETALL', base .. 'p:' .. part)
  end
  return {lineages, parts}
end

return redis.error_reply('unknown operation')
