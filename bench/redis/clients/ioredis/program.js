// ioredis against a server: what applications use of it, each checked.
//
//     PORT=6379 RESTART='command that restarts the server' node program.js     (after `npm install ioredis`)
'use strict'
const Redis = require('ioredis')
const { execSync } = require('child_process')
const { isDeepStrictEqual } = require('util')

const port = Number(process.env.PORT)
let checks = 0
const failures = []
const connect = (more = {}) => new Redis({ port, ...more })

function check(name, found, wanted) {
  checks++
  if (!isDeepStrictEqual(found, wanted)) failures.push(`${name}: ${JSON.stringify(found)} is not ${JSON.stringify(wanted)}`)
}

async function values(r) {
  check('set', await r.set('s', 'v', 'PX', 100000, 'NX'), 'OK')
  check('get', await r.get('s'), 'v')
  check('getBuffer', await r.getBuffer('s'), Buffer.from('v'))
  check('binary', (await r.set('b', Buffer.from([0, 255, 13, 10])), await r.getBuffer('b')), Buffer.from([0, 255, 13, 10]))
  check('mset', await r.mset(new Map([['a', '1'], ['c', '2']])), 'OK')
  check('hset', await r.hset('h', { one: 1, two: 2 }), 2)
  check('hgetall', await r.hgetall('h'), { one: '1', two: '2' })
  check('zadd', await r.zadd('z', 1, 'one', 2, 'two'), 2)
  check('zrange', await r.zrange('z', 0, -1, 'WITHSCORES'), ['one', '1', 'two', '2'])
  check('sadd', await r.sadd('set', 1, 2, 3), 3)
  check('rpush', await r.rpush('l', 1, 2, 3), 3)
  check('wrong type', await r.incr('h').catch(error => error.message.slice(0, 9)), 'WRONGTYPE')
}

async function pipelines(r) {
  const pipeline = r.pipeline()
  for (let number = 0; number < 1000; number++) pipeline.set(`p:${number}`, number)
  check('pipeline', (await pipeline.exec()).filter(([error, reply]) => !error && reply === 'OK').length, 1000)
  check('multi', await r.multi().incr('m').incr('m').exec(), [[null, 1], [null, 2]])
  check('multi with an error', (await r.multi().set('m', 'x').incr('m').get('m').exec()).map(([error]) => !!error), [false, true, false])
  const other = connect()
  await r.watch('m')
  await other.set('m', 1)
  check('watch', await r.multi().get('m').exec(), null)
  other.disconnect()
}

async function scans(r) {
  const found = new Set()
  for await (const keys of r.scanStream({ match: 'p:*', count: 100 })) keys.forEach(key => found.add(key))
  check('scanStream', found.size, 1000)
  await r.hset('big', Object.fromEntries([...Array(1000).keys()].map(n => [`f${n}`, n])))
  let fields = 0
  for await (const pairs of r.hscanStream('big')) fields += pairs.length / 2
  check('hscanStream', fields, 1000)
}

async function pubsub(r) {
  const subscriber = connect()
  const next = name => new Promise(resolve => subscriber.once(name, (...parts) => resolve(parts)))
  check('subscribe', await subscriber.subscribe('channel'), 1)
  check('psubscribe', await subscriber.psubscribe('pat*'), 2)
  const message = next('message')
  await r.publish('channel', 'hello')
  check('message', await message, ['channel', 'hello'])
  const pmessage = next('pmessage')
  await r.publish('pattern', 'hi')
  check('pmessage', await pmessage, ['pat*', 'pattern', 'hi'])
  subscriber.disconnect()
}

async function scripts(r) {
  r.defineCommand('add', { numberOfKeys: 1, lua: "return redis.call('INCRBY', KEYS[1], ARGV[1])" })
  check('defineCommand', [await r.add('sum', 5), await r.add('sum', 6)], [5, 11])
  check('pipeline of scripts', await r.pipeline().add('sum', 1).add('sum', 1).exec(), [[null, 12], [null, 13]])
}

async function blocking(r) {
  const waiting = connect()
  check('blpop times out', await waiting.blpop('nothing', 0.2), null)
  setTimeout(() => r.rpush('queue', 'job'), 100)
  check('blpop', await waiting.blpop('queue', 5), ['queue', 'job'])
  setTimeout(() => r.rpush('from', 'item'), 100)
  check('blmove', await waiting.blmove('from', 'to', 'LEFT', 'RIGHT', 5), 'item')
  waiting.disconnect()
}

async function streams(r) {
  const id = await r.xadd('st', '*', 'a', '1')
  check('xrange', await r.xrange('st', '-', '+'), [[id, ['a', '1']]])
  check('xgroup', await r.xgroup('CREATE', 'st', 'g', '0'), 'OK')
  check('xreadgroup', await r.xreadgroup('GROUP', 'g', 'c', 'STREAMS', 'st', '>'), [['st', [[id, ['a', '1']]]]])
  check('xack', await r.xack('st', 'g', id), 1)
}

async function restart() {
  const r = connect({ retryStrategy: () => 100, maxRetriesPerRequest: 100 })
  r.on('error', () => {})
  await r.set('kept', 'yes')
  execSync(process.env.RESTART)
  check('reconnects', await r.get('kept'), 'yes')
  r.disconnect()
}

async function main() {
  const r = connect()
  await r.flushall()
  check('ready check by INFO', r.status, 'ready')
  for (const step of [values, pipelines, scans, pubsub, scripts, blocking, streams].concat(process.env.RESTART ? [restart] : [])) {
    const limit = new Promise((_, reject) => setTimeout(() => reject(new Error('no reply for 8 s')), 8000).unref())
    await Promise.race([step(r), limit]).catch(error => failures.push(`${step.name}: ${error.message}`))
  }
  failures.forEach(failure => console.log('  failed:', failure))
  console.log(`ioredis ${require('ioredis/package.json').version}: ${checks} checks, ${failures.length} failed`)
  process.exit(failures.length ? 1 : 0)
}

main()
